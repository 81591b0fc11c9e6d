//! The relations of schema `information_schema`, as the SQL standard and PostgreSQL name them.
//! Of objects a node does not have (constraints, sequences, triggers) they are empty.

mod columns;
mod privileges;
mod routines;
mod schemata;
mod tables;

use super::system_relation::Fill;

pub const RELATIONS: &[(&str, Option<Fill>)] = &[
    ("administrable_role_authorizations", None),
    ("applicable_roles", None),
    ("attributes", None),
    ("character_sets", Some(schemata::character_sets)),
    ("check_constraint_routine_usage", None),
    ("check_constraints", None),
    ("collation_character_set_applicability", Some(schemata::collation_applicability)),
    ("collations", Some(schemata::collations)),
    ("column_domain_usage", None),
    ("column_options", None),
    ("column_privileges", Some(privileges::columns)),
    ("column_udt_usage", None),
    ("columns", Some(columns::columns)),
    ("constraint_column_usage", None),
    ("constraint_table_usage", None),
    ("domain_constraints", None),
    ("domains", None),
    ("element_types", Some(columns::element_types)),
    ("enabled_roles", Some(schemata::enabled_roles)),
    ("foreign_data_wrappers", Some(tables::foreign_data_wrappers)),
    ("foreign_servers", Some(tables::foreign_servers)),
    ("foreign_tables", Some(tables::foreign_tables)),
    ("information_schema_catalog_name", Some(schemata::catalog_name)),
    ("key_column_usage", None),
    ("parameters", Some(routines::parameters)),
    ("referential_constraints", None),
    ("role_column_grants", Some(privileges::columns)),
    ("role_table_grants", Some(privileges::tables)),
    ("routines", Some(routines::routines)),
    ("schemata", Some(schemata::schemata)),
    ("sequences", None),
    ("table_constraints", None),
    ("table_privileges", Some(privileges::tables)),
    ("tables", Some(tables::tables)),
    ("triggered_update_columns", None),
    ("triggers", None),
    ("user_defined_types", None),
    ("user_mapping_options", None),
    ("user_mappings", None),
    ("view_column_usage", None),
    ("view_routine_usage", None),
    ("view_table_usage", Some(tables::view_table_usage)),
    ("views", Some(tables::views)),
];

fn yes_no(yes: bool) -> &'static str {
    if yes { "YES" } else { "NO" }
}
