-- Constants, operators and their types.
select 1 + 2, 7 / 2, -7 / 2, 7 % 3, 2.5 * 2, 1e3
select 2147483647 + 1
select 9223372036854775807 + 1
select 1 / 0
select 1 = 1, 'a' < 'b', null = 1, 1 is distinct from null
select 'x'::int
select true and null, false and null, true or null, not false
select case when 1 = 1 then 'one' else 'other' end, coalesce(null, 2, 3), nullif(1, 1), greatest(1, 3, 2), least(2, null, 1)
select array[1, 2, null], array['a', 'b c', ''], '{1,2}'::int[], (array[10, 20, 30])[2], (array[1, 2, 3])[2:3]
select 3 between 1 and 5, 3 in (1, 2, 3), 4 not in (1, 2), null in (1)
select 1.0::float8 / 3, 1e100::float8, 0.1::float4, 'NaN'::float8
select interval '26 hours' < interval '1 day', interval '24 hours' = interval '1 day', interval '1 mon' = interval '30 days'
values (1, 'a'), (2, null)
select 1 union all select 2 union all select 2 order by 1 desc
select 1 union select 2 union select 2 order by 1
select 3 except select 4
select nosuch
select nosuch(1)
select 1 + 'a'
select 1 = 'a'::text
select 'abc' || 'def', 'a' || 1
select 1.0::float8 / 3, 1e100::float8, 0.1::float4, 'NaN'::float8
select upper('ab'), initcap('hello world'), substr('abcdef', 2, 3), lpad('7', 3, '0'), split_part('a,b,c', ',', 2), strpos('abc', 'c')
select 'abc' like 'a%', 'abc' ilike 'A_C', 'abc' ~ '^a.c$', 'abc' !~* 'B', 'abc' similar to '(a|b)%'
select regexp_replace('foobar', 'o+', 'x'), substring('foobar' from 'o(.)b'), regexp_match('ab12', '([a-z]+)(\d+)')
select format('%s is %I and %L', 'x', 'Y z', 'it''s'), concat('a', null, 1), concat_ws('-', 'a', null, 'b')
select trim(both 'x' from 'xxaxx'), overlay('abcdef' placing 'XX' from 2 for 3), translate('abc', 'ab', 'x'), reverse('abc')
