-- asyncpg: leaving the pool, then types it does not know.
SELECT pg_advisory_unlock_all();
SELECT current_setting('jit') AS cur, set_config('jit', 'off', false) AS new;
-- postgres.js: array types.
select b.oid, b.typarray from pg_catalog.pg_type a left join pg_catalog.pg_type b on b.oid = a.typelem where a.typcategory = 'A' and b.oid in (23, 25) group by b.oid, b.typarray order by b.oid;
-- psqlodbc.
select oid, typbasetype from pg_type where typname = 'lo';
-- tokio-postgres.
SELECT t.typname, t.typtype, t.typelem, r.rngsubtype, t.typbasetype, n.nspname, t.typrelid FROM pg_catalog.pg_type t LEFT OUTER JOIN pg_catalog.pg_range r ON r.rngtypid = t.oid INNER JOIN pg_catalog.pg_namespace n ON t.typnamespace = n.oid WHERE t.oid = 1007;
-- SQLAlchemy.
select pg_catalog.version() like 'PostgreSQL 15%';
SELECT pg_catalog.pg_class.relname FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace ON pg_catalog.pg_namespace.oid = pg_catalog.pg_class.relnamespace WHERE pg_catalog.pg_class.relkind = ANY (ARRAY['r', 'p', 'f', 'v', 'm']) AND pg_catalog.pg_class.relpersistence != 't' AND pg_catalog.pg_table_is_visible(pg_catalog.pg_class.oid) AND pg_catalog.pg_namespace.nspname != 'pg_catalog' ORDER BY 1;
SELECT nspname FROM pg_catalog.pg_namespace WHERE nspname NOT LIKE 'pg/_' || '%' ESCAPE '/' ORDER BY nspname;
-- pgjdbc: schemas, tables, columns, types, keys.
SELECT nspname AS TABLE_SCHEM, NULL AS TABLE_CATALOG FROM pg_catalog.pg_namespace WHERE nspname <> 'pg_toast' AND (nspname !~ '^pg_temp_' OR nspname = (pg_catalog.current_schemas(true))[1]) ORDER BY TABLE_SCHEM;
SELECT NULL AS TABLE_CAT, n.nspname AS TABLE_SCHEM, c.relname AS TABLE_NAME, CASE n.nspname ~ '^pg_' OR n.nspname = 'information_schema' WHEN true THEN 'SYSTEM' WHEN false THEN CASE c.relkind WHEN 'r' THEN 'TABLE' WHEN 'v' THEN 'VIEW' WHEN 'f' THEN 'FOREIGN TABLE' ELSE NULL END ELSE NULL END AS TABLE_TYPE, d.description AS REMARKS FROM pg_catalog.pg_namespace n, pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_description d ON (c.oid = d.objoid AND d.objsubid = 0 and d.classoid = 'pg_class'::regclass) WHERE c.relnamespace = n.oid AND n.nspname LIKE 'public' ORDER BY TABLE_TYPE, TABLE_SCHEM, TABLE_NAME;
SELECT * FROM (SELECT n.nspname, c.relname, a.attname, a.atttypid, a.attnotnull OR (t.typtype = 'd' AND t.typnotnull) AS attnotnull, a.atttypmod, a.attlen, t.typtypmod, row_number() OVER (PARTITION BY a.attrelid ORDER BY a.attnum) AS attnum, nullif(a.attidentity, '') as attidentity, nullif(a.attgenerated, '') as attgenerated, pg_catalog.pg_get_expr(def.adbin, def.adrelid) AS adsrc, dsc.description, t.typbasetype, t.typtype FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_class c ON (c.relnamespace = n.oid) JOIN pg_catalog.pg_attribute a ON (a.attrelid = c.oid) JOIN pg_catalog.pg_type t ON (a.atttypid = t.oid) LEFT JOIN pg_catalog.pg_attrdef def ON (a.attrelid = def.adrelid AND a.attnum = def.adnum) LEFT JOIN pg_catalog.pg_description dsc ON (c.oid = dsc.objoid AND a.attnum = dsc.objsubid) LEFT JOIN pg_catalog.pg_class dc ON (dc.oid = dsc.classoid AND dc.relname = 'pg_class') LEFT JOIN pg_catalog.pg_namespace dn ON (dc.relnamespace = dn.oid AND dn.nspname = 'pg_catalog') WHERE c.relkind in ('r', 'p', 'v', 'f', 'm') and a.attnum > 0 AND NOT a.attisdropped AND n.nspname LIKE 'public' AND c.relname LIKE 't') c WHERE true ORDER BY nspname, c.relname, attnum;
-- Grafana.
SELECT quote_ident(table_name) FROM information_schema.tables WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog') ORDER BY 1;
SELECT column_name, data_type, udt_name, is_nullable, column_default, character_maximum_length, numeric_precision, numeric_scale, datetime_precision, is_identity FROM information_schema.columns WHERE table_schema = 'public' AND table_name = 't' ORDER BY ordinal_position;
-- dbt: what depends on what.
select distinct dependent.relname, referenced.relname from pg_depend d join pg_rewrite r on r.oid = d.objid join pg_class dependent on dependent.oid = r.ev_class join pg_class referenced on referenced.oid = d.refobjid where d.classid = 'pg_rewrite'::regclass and d.refclassid = 'pg_class'::regclass and dependent.oid <> referenced.oid;
select table_name from "postgres".INFORMATION_SCHEMA.columns where table_schema = 's2';
-- Metabase: tables with their comments and estimates; foreign keys.
select n.nspname, c.relname, d.description, s.n_live_tup from pg_catalog.pg_class c join pg_catalog.pg_namespace n on c.relnamespace = n.oid left join pg_catalog.pg_description d on c.oid = d.objoid and d.objsubid = 0 and d.classoid = 'pg_class'::regclass left join pg_stat_user_tables s on s.relid = c.oid where n.nspname !~ '^pg_' and n.nspname <> 'information_schema' and c.relkind in ('r','v','f','m') order by 1, 2;
-- DBeaver.
SELECT current_schema(), session_user;
SELECT db.oid, db.* FROM pg_catalog.pg_database db WHERE datallowconn AND NOT datistemplate;
SELECT n.oid, n.*, d.description FROM pg_catalog.pg_namespace n LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = n.oid AND d.objsubid = 0 AND d.classoid = 'pg_namespace'::regclass ORDER BY nspname;
-- Power BI.
select character_set_name from information_schema.character_sets;
select pkcol.column_name from information_schema.table_constraints pkcon join information_schema.key_column_usage pkcol on pkcol.constraint_name = pkcon.constraint_name where pkcon.constraint_type = 'PRIMARY KEY';
