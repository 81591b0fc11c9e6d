-- Metabase's privilege checks.
select pg_catalog.has_any_column_privilege(current_user, '"public"."t"', 'select'), pg_catalog.has_table_privilege(current_user,'"public"."t"','delete'), pg_catalog.has_schema_privilege(current_user,'public','usage');
select has_table_privilege('nosuch', 'select');
select has_table_privilege('t', 'fly');
select has_table_privilege('nosuch', 't', 'select');
select has_table_privilege(99::oid, 'select'), has_table_privilege('t'::regclass, 'select'), has_column_privilege('t', 'b', 'select');
select has_column_privilege('t', 'nosuch', 'select');
select has_database_privilege('nosuch', 'connect');
select t.schemaname, t.tablename, pg_catalog.has_any_column_privilege(current_user, '"' || t.schemaname || '"."' || t.tablename || '"', 'update') from (select schemaname, tablename from pg_catalog.pg_tables union select schemaname, viewname from pg_catalog.pg_views union select schemaname, matviewname from pg_catalog.pg_matviews) t where t.schemaname !~ '^pg_' and t.schemaname <> 'information_schema' order by 1, 2;
-- DataGrip and pgjdbc: is it an array?
select typinput = 'pg_catalog.array_in'::regproc as is_array, typtype, typname, oid from pg_catalog.pg_type where oid in (1007, 23) order by oid desc;
select t.typname, t.typreceive::oid <> 0, t.typsend::oid <> 0, p.proname from pg_type t join pg_proc p on p.oid = t.typreceive where t.oid in (16, 23, 25, 1184, 1700, 2950, 3802) order by t.oid;
-- Harlequin.
select schema_name from information_schema.schemata where catalog_name = current_database() and schema_name not like 'pg_%' order by 1;
-- The session.
select version() like 'PostgreSQL 15%', current_schema(), current_schemas(true), current_schemas(false), current_database(), current_user, session_user, pg_backend_pid();
select current_schema, current_catalog, current_role, user;
select current_setting('server_version_num')::int / 100, current_setting('nosuch', true);
select current_setting('nosuch');
select set_config('jit', 'off', false), pg_is_in_recovery(), pg_my_temp_schema();
select pg_advisory_unlock_all();
select pg_try_advisory_lock(1);
select inet_client_addr(), inet_client_port(), pg_postmaster_start_time() = pg_conf_load_time();
-- Names of objects.
select 't'::regclass::oid, 's2.u'::regclass::text, 16387::regclass::text, '"Feed"'::regclass::text, 'pg_class'::regclass::oid, 1259::regclass::text, 99::regclass::text, 0::regclass::text;
select 'nosuch'::regclass;
select 'nosuch.t'::regclass;
select to_regclass('nosuch') is null, to_regclass('public.t')::oid, to_regtype('int4')::oid, to_regtype('timestamp with time zone')::oid, to_regtype('nosuch') is null, to_regnamespace('s2')::oid, to_regrole('postgres')::oid;
select 'integer'::regtype::oid, 'varchar(10)'::regtype::oid, '_text'::regtype::text, 1184::regtype::text, 'public'::regnamespace::oid, 2200::regnamespace::text, 'postgres'::regrole::oid;
select format_type(1043, 14), format_type(1700, 524294), format_type(1042, null), format_type(23, null), format_type(1007, -1), format_type(869, null), format_type(0, -1), format_type(null, 1) is null, format_type(999999, null);
select parse_ident('a."B".c'), parse_ident('Public.T'), quote_ident('Feed'), quote_ident('select');
select parse_ident('a.1');
-- Comments, definitions, sizes.
select obj_description('t'::regclass, 'pg_class'), col_description('t'::regclass, 2), obj_description(2200, 'pg_namespace'), shobj_description(5, 'pg_database');
select pg_get_viewdef('v'::regclass), pg_get_viewdef('v', true), pg_get_viewdef('t'::regclass::oid) is null;
select pg_size_pretty(0::bigint), pg_size_pretty(10239::bigint), pg_size_pretty(10240::bigint), pg_size_pretty(10485247::bigint), pg_size_pretty(1234567890123::bigint), pg_size_pretty(-20480::bigint);
select pg_get_serial_sequence('t', 'a');
select pg_get_serial_sequence('t', 'z');
select pg_encoding_to_char(6), pg_char_to_encoding('utf-8'), pg_encoding_to_char(99), pg_table_is_visible('s2.u'::regclass), pg_table_is_visible('t'::regclass), pg_table_is_visible(1);
select count(*) > 400, min(word) from pg_get_keywords();
select conname from pg_constraint;
select count(*) > 500 from pg_timezone_names;
select srvname, fdwname, srvoptions from pg_foreign_server s join pg_foreign_data_wrapper w on w.oid = s.srvfdw;
select ftrelid::regclass::text, ftoptions from pg_foreign_table;
select classid::regclass::text, refclassid::regclass::text, refobjid, deptype from pg_depend order by 1, 2, 3, 4;
