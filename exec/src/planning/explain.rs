//! EXPLAIN: the physical plan as text or JSON, with what was measured where it was run.

use std::sync::Arc;

use arrow::array::{RecordBatch, StringArray};
use arrow::datatypes::{DataType, Schema};
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};
use futures::TryStreamExt;
use serde_json::{Value, json};

use super::planner::Physical;
use super::types::{PgType, oid, typed_field};
use crate::batch::execute::{Bound, stream};
use crate::sql::error::Result;
use crate::sql::statement::{Explain, ExplainFormat};

/// The lines of the answer. ANALYZE runs the query to its end first.
pub async fn rows(explain: &Explain, _: &Bound, physical: Physical) -> Result<RecordBatch> {
    let plan = physical.plan.clone();
    let mut result_rows = None;
    if explain.analyze {
        let mut batches = stream(physical);
        let mut count = 0;
        while let Some(batch) = batches.try_next().await? {
            count += batch.num_rows();
        }
        result_rows = Some(count);
    }
    let lines: Vec<String> = match explain.format {
        ExplainFormat::Text => {
            let displayable = if explain.analyze {
                DisplayableExecutionPlan::with_metrics(plan.as_ref())
            } else {
                DisplayableExecutionPlan::new(plan.as_ref())
            };
            let text = displayable.indent(explain.verbose).to_string();
            let mut lines: Vec<String> = text.lines().map(readable).collect();
            lines.extend(result_rows.map(|n| format!("Rows: {n}")));
            lines
        }
        ExplainFormat::Json => {
            let mut root = json!({ "Plan": node(&plan, explain.analyze) });
            if let Some(n) = result_rows {
                root["Actual Rows"] = json!(n);
            }
            vec![serde_json::to_string_pretty(&Value::Array(vec![root])).unwrap_or_default()]
        }
    };
    let t = if explain.format == ExplainFormat::Json { oid::JSON } else { oid::TEXT };
    let field = typed_field("QUERY PLAN", DataType::Utf8, PgType::of(t));
    Ok(RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![Arc::new(StringArray::from(lines))])?)
}

fn node(plan: &Arc<dyn ExecutionPlan>, analyzed: bool) -> Value {
    struct Shown<'a>(&'a dyn ExecutionPlan);
    impl std::fmt::Display for Shown<'_> {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            self.0.fmt_as(DisplayFormatType::Default, f)
        }
    }
    let mut value = json!({
        "Node Type": plan.name(),
        "Detail": readable(&Shown(plan.as_ref()).to_string()),
    });
    if analyzed && let Some(metrics) = plan.metrics() {
        if let Some(rows) = metrics.output_rows() {
            value["Actual Rows"] = json!(rows);
        }
        if let Some(time) = metrics.elapsed_compute() {
            value["Compute Time"] = json!(time as f64 / 1e6);
        }
    }
    let children: Vec<Value> = plan.children().into_iter().map(|c| node(c, analyzed)).collect();
    if !children.is_empty() {
        value["Plans"] = Value::Array(children);
    }
    value
}

/// The plan's own column names (`city#7`) without their numbers.
fn readable(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        let numbered = c == '#' && chars.peek().is_some_and(char::is_ascii_digit);
        if numbered {
            while chars.next_if(char::is_ascii_digit).is_some() {}
        } else {
            out.push(c);
        }
    }
    out
}
