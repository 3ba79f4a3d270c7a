INSERT INTO benchmark (id, project, cluster_id, cluster, account, plan, created_at, phase, phase_at, wake_at) VALUES
  ('b1', 'lab', 'c1', 'hello', 'ada', '{"suite": {"suite": "quick", "recipes": []}, "rounds": 1}', 1700000000000, 'pending', 1700000000000, 1700000000000);
INSERT INTO benchmark_round (benchmark_id, number, state, why, nodes, began, ended) VALUES ('b1', 0, 'ok', '', '{"n1": "m1"}', 1, 2);
INSERT INTO benchmark_step (benchmark_id, round, number, state, why, took, output) VALUES ('b1', 0, 0, 'invalid', 'it says FAILED', 5, '');
INSERT INTO benchmark_sample (benchmark_id, round, step, place, quantity, labels, node, value, unit, better) VALUES
  ('b1', 0, 0, 0, 'triad', '{"elements": "4"}', 'n1', 20.5, 'GB/s', 'higher');
