//! A running query as its reader sees it: a bounded channel from the compute thread, and, for a live query, how far it
//! has said what was committed. Owns the hand-over between the two threads; knows neither plans nor protocols.

use std::sync::Arc;

use alluvium_storage::{CommitTimestamp, Executor};
use arrow::array::{Array, RecordBatch};
use futures::StreamExt;
use futures::stream::BoxStream;
use tokio::sync::{mpsc, watch};

use crate::engine::{ColumnDescription, Tag};
use crate::sql::error::Result;

/// A result not yet begun: how to turn its batches into what the client wants is said at [`Execution::start`].
pub struct Execution {
    pub columns: Arc<[ColumnDescription]>,
    pub tag: Tag,
    pub live: bool,
    batches: BoxStream<'static, Result<RecordBatch>>,
    compute: Executor,
    progress: Option<ProgressReader>,
}

/// A live query's side of "say what is there": `wanted` moves when a reader asks, `said` when the stream of batches has
/// *yielded* all that was committed up to there. The stream sets `said` before it returns pending.
pub struct ProgressSource {
    pub wanted: watch::Receiver<CommitTimestamp>,
    pub said: watch::Sender<CommitTimestamp>,
}

/// The reader's side.
pub struct ProgressReader {
    wanted: watch::Sender<CommitTimestamp>,
    said: watch::Receiver<CommitTimestamp>,
}

/// The two ends of a live query's progress. Give the second to [`Execution::with_progress`].
pub fn progress() -> (ProgressSource, ProgressReader) {
    let (wanted, wanted_receiver) = watch::channel(CommitTimestamp(0));
    let (said, said_receiver) = watch::channel(CommitTimestamp(0));
    (ProgressSource { wanted: wanted_receiver, said }, ProgressReader { wanted, said: said_receiver })
}

impl Execution {
    pub fn new(
        columns: Arc<[ColumnDescription]>,
        tag: Tag,
        live: bool,
        batches: BoxStream<'static, Result<RecordBatch>>,
        compute: Executor,
    ) -> Self {
        Self { columns, tag, live, batches, compute, progress: None }
    }

    /// For live queries: lets a reader take all that is committed and nothing more, without waiting for new rows.
    pub fn with_progress(mut self, progress: ProgressReader) -> Self {
        self.progress = Some(progress);
        self
    }

    /// Runs the query and `map` on the compute thread, at most `ahead` items in front of the reader.
    /// Dropping the [`Rows`] ends the query.
    pub fn start<T, F>(self, ahead: usize, map: F) -> Rows<T>
    where
        T: Send + 'static,
        F: FnMut(&RecordBatch) -> Result<T> + Send + 'static,
    {
        self.run(ahead, usize::MAX, map)
    }

    /// As [`Execution::start`], with batches cut into slices of about `slice_bytes` (one row at least), so that what
    /// waits for the reader is bounded in bytes. Empty batches are left out.
    pub fn start_sliced<T, F>(self, ahead: usize, slice_bytes: usize, map: F) -> Rows<T>
    where
        T: Send + 'static,
        F: FnMut(&RecordBatch) -> Result<T> + Send + 'static,
    {
        self.run(ahead, slice_bytes, map)
    }

    fn run<T, F>(self, ahead: usize, slice_bytes: usize, mut map: F) -> Rows<T>
    where
        T: Send + 'static,
        F: FnMut(&RecordBatch) -> Result<T> + Send + 'static,
    {
        let (sender, receiver) = mpsc::channel(ahead.max(1));
        let mut batches = self.batches;
        let (wanted, said) = match self.progress {
            Some(progress) => (Some(progress.wanted), Some(progress.said)),
            None => (None, None),
        };
        let (handed_over, reached) = watch::channel(CommitTimestamp(0));
        self.compute.spawn(move || async move {
            loop {
                let batch = std::future::poll_fn(|context| {
                    let polled = batches.poll_next_unpin(context);
                    if polled.is_pending()
                        && let Some(said) = &said
                    {
                        // All that was yielded before has been sent, so the reader may take this as reached.
                        let said = *said.borrow();
                        handed_over.send_if_modified(|reached| std::mem::replace(reached, said) != said);
                    }
                    polled
                });
                let batch = tokio::select! {
                    biased;
                    () = sender.closed() => return,
                    batch = batch => batch,
                };
                let batch = match batch {
                    None => return,
                    Some(Err(error)) => {
                        let _ = sender.send(Err(error)).await;
                        return;
                    }
                    Some(Ok(batch)) => batch,
                };
                let rows_max = rows_for(&batch, slice_bytes);
                let mut from = 0;
                while from < batch.num_rows() || (from == 0 && slice_bytes == usize::MAX) {
                    let rows = rows_max.min(batch.num_rows() - from);
                    let item = map(&batch.slice(from, rows));
                    let failed = item.is_err();
                    if sender.send(item).await.is_err() || failed {
                        return;
                    }
                    from += rows.max(1);
                }
            }
        });
        Rows { receiver, wanted, reached }
    }
}

/// How many of the batch's rows take about `bytes`.
fn rows_for(batch: &RecordBatch, bytes: usize) -> usize {
    let held: usize =
        batch.columns().iter().map(|c| c.to_data().get_slice_memory_size().unwrap_or(0)).fold(0, usize::saturating_add);
    let row = (held / batch.num_rows().max(1)).max(1);
    (bytes / row).max(1)
}

/// Items as they come; pending means that there is nothing to show now.
pub struct Rows<T> {
    receiver: mpsc::Receiver<Result<T>>,
    wanted: Option<watch::Sender<CommitTimestamp>>,
    reached: watch::Receiver<CommitTimestamp>,
}

/// What [`Rows::next_until`] found.
pub enum Ready<T> {
    Item(Result<T>),
    /// All that was committed at the time asked for has been read.
    CaughtUp,
    End,
}

impl<T> Rows<T> {
    /// `None` at the end. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<T>> {
        self.receiver.recv().await
    }

    /// What is ready now, without waiting: `Ok(None)` = nothing yet, `Err(())` = the end.
    pub fn try_next(&mut self) -> std::result::Result<Option<Result<T>>, ()> {
        match self.receiver.try_recv() {
            Ok(item) => Ok(Some(item)),
            Err(mpsc::error::TryRecvError::Empty) => Ok(None),
            Err(mpsc::error::TryRecvError::Disconnected) => Err(()),
        }
    }

    /// The next item of those committed up to `at`, waiting for the query to say it but not for new rows. A query that
    /// tells no progress is read to its end. Cancel-safe.
    pub async fn next_until(&mut self, at: CommitTimestamp) -> Ready<T> {
        if let Some(wanted) = &self.wanted {
            wanted.send_if_modified(|wanted| std::mem::replace(wanted, at.max(*wanted)) < at);
        }
        loop {
            // Looked at before the channel: whatever was handed over by then is in the channel already.
            let caught_up = *self.reached.borrow_and_update() >= at;
            match self.receiver.try_recv() {
                Ok(item) => return Ready::Item(item),
                Err(mpsc::error::TryRecvError::Disconnected) => return Ready::End,
                Err(mpsc::error::TryRecvError::Empty) if caught_up => return Ready::CaughtUp,
                Err(mpsc::error::TryRecvError::Empty) => {}
            }
            tokio::select! {
                biased;
                item = self.receiver.recv() => return item.map_or(Ready::End, Ready::Item),
                changed = self.reached.changed() => if changed.is_err() {
                    return self.receiver.recv().await.map_or(Ready::End, Ready::Item);
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int32Array;
    use arrow::datatypes::{DataType, Field, Schema};
    use tokio::task::LocalSet;

    use super::*;

    fn batch(values: std::ops::Range<i32>) -> RecordBatch {
        let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int32, true)]));
        RecordBatch::try_new(schema, vec![Arc::new(Int32Array::from_iter_values(values))]).expect("one column")
    }

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        LocalSet::new().block_on(&runtime, test);
    }

    #[test]
    fn slices_are_bounded_and_keep_all_rows() {
        run(async {
            let batches = futures::stream::iter([Ok(batch(0..1000)), Ok(batch(0..0)), Ok(batch(1000..1001))]).boxed();
            let execution = Execution::new(Arc::from([]), Tag::Select, false, batches, Executor::current_thread());
            let mut rows = execution.start_sliced(1, 400, |slice| Ok(slice.num_rows()));
            let mut sizes = Vec::new();
            while let Some(size) = rows.next().await {
                sizes.push(size.expect("no error"));
            }
            assert_eq!(sizes.iter().sum::<usize>(), 1001);
            assert!(sizes.iter().all(|s| (1..=100).contains(s)), "{sizes:?}");
        });
    }

    /// The dataflow says two rows at 5, then nothing until asked for 9.
    #[test]
    fn a_reader_takes_what_is_committed_and_does_not_wait_for_more() {
        run(async {
            let (source, reader) = progress();
            let ProgressSource { wanted, said } = source;
            let batches = async_stream(move |step| {
                let (said, wanted) = (said.clone(), wanted.clone());
                async move {
                    match step {
                        0 | 1 => Some(Ok(batch(step..step + 1))),
                        _ => {
                            said.send_replace(CommitTimestamp(5));
                            let mut wanted = wanted;
                            while wanted.borrow_and_update().0 <= 5 {
                                wanted.changed().await.ok()?;
                            }
                            said.send_replace(*wanted.borrow());
                            std::future::pending().await
                        }
                    }
                }
            });
            let execution = Execution::new(Arc::from([]), Tag::Select, true, batches, Executor::current_thread())
                .with_progress(reader);
            let mut rows = execution.start(4, |b| Ok(b.num_rows()));
            assert!(matches!(rows.next_until(CommitTimestamp(5)).await, Ready::Item(Ok(1))));
            assert!(matches!(rows.next_until(CommitTimestamp(5)).await, Ready::Item(Ok(1))));
            assert!(matches!(rows.next_until(CommitTimestamp(5)).await, Ready::CaughtUp));
            assert!(matches!(rows.next_until(CommitTimestamp(9)).await, Ready::CaughtUp));
        });
    }

    fn async_stream<F, Fut>(mut step: F) -> BoxStream<'static, Result<RecordBatch>>
    where
        F: FnMut(i32) -> Fut + Send + 'static,
        Fut: Future<Output = Option<Result<RecordBatch>>> + Send + 'static,
    {
        futures::stream::unfold(0, move |at| {
            let next = step(at);
            async move { next.await.map(|item| (item, at + 1)) }
        })
        .boxed()
    }
}
