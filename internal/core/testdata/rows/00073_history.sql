UPDATE benchmark SET begin_at = 1700000000000, every = 86400000 WHERE id = 'b1';
INSERT INTO benchmark_series (id, what) VALUES ('s1', '{"recipe": "stream", "quantity": "triad", "unit": "GB/s", "better": "higher"}');
INSERT INTO benchmark_point (benchmark_id, series, machine, cluster_id, at, value) VALUES ('b1', 's1', 'm1', 'c1', 1700000000000, 20.5);
INSERT INTO benchmark_change (id, series, cluster_id, machine, benchmark_id, at, was, became, causes, told_at) VALUES
  ('h1', 's1', '', 'm1', 'b1', 1700000000000, 30, 20.5, '["n1: kernel is 6.12, was 6.1"]', 1700000000001);
