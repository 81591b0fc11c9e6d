-- Stored relations: scans, joins, grouping, windows, subqueries.
select id, name from city order by id
select * from city order by founded nulls first, id limit 2
select count(*), count(founded), sum(id), min(name), max(area) from city
select c.name, count(*) as n, sum(r.value) from city c join reading r on r.city = c.id group by c.name order by c.name
select c.name, r.value from city c left join reading r on r.city = c.id and r.value > 90 order by 1, 2
select count(distinct city), count(distinct value) from reading
select city, count(distinct value) from reading group by city order by city
select city from reading group by city having count(value) > 6 order by city
select name from city where id in (select city from reading where value > 95) order by name
select name from city c where exists (select 1 from reading r where r.city = c.id and r.value = 0)
select name, (select max(value) from reading r where r.city = c.id) from city c order by name
select name from city where id not in (select city from reading) order by name
select city, value, row_number() over (partition by city order by value desc nulls last, at) from reading where city < 2 order by 1, 3
select city, sum(value) over (order by at, city rows between 1 preceding and current row) from reading where city = 3 order by at
select at::date, rank() over (order by value) from reading where value < 20 order by at
with top as (select city, max(value) as m from reading group by city) select c.name, t.m from city c join top t on t.city = c.id order by 1
with recursive n(i) as (select 1 union all select i + 1 from n where i < 5) select i from n
select name from city natural join (select 1 as id) x
select id, city.name from city join (values (1, 'x'), (3, 'y')) v(id, w) using (id) order by id
select distinct city from reading order by city
select distinct on (city) city, at, value from reading order by city, at desc
select city, value from reading where value is not null order by value desc, city limit 3 offset 2
select name from city where missing = 1
select name, count(*) from city
select name from city where count(*) > 1
select x.id from city x, city y where x.id = y.id and x.id < 3 order by 1
select * from nosuch
select a.name, b.name from city a cross join city b where a.id = 1 order by 2
select city, grouping(city), count(*) from reading group by rollup (city) order by city nulls last
select c.name, r.at from city c, lateral (select at from reading where city = c.id order by at desc limit 1) r order by 1
select id from city where (id, name) in ((1, 'Berlin'), (2, 'x'))
select id from city where id = any (array[1, 3]) order by 1
select id from city where name <> all ('{Berlin,Paris}') order by 1
select array(select id from city order by id)
