INSERT INTO usage (subject, kind, project, cluster_id, cluster, node, queue, class, machine, state, quantity, rate, currency, charges, charged, cores, gpus, follows, began, ended) VALUES
  ('k1', 'node', 'lab', 'c1', 'cfd', 'head', '', 'local', 'host-1', 'preparing', 1, 1000000, 'EUR', '["ready"]', 0, 4, 0, NULL, 1760000001000, 1760000002000),
  ('k1', 'node', 'lab', 'c1', 'cfd', 'head', '', 'local', 'host-1', 'ready', 1, 1000000, 'EUR', '["ready"]', 1, 4, 0, 1760000002000, 1760000002000, NULL),
  ('k2', 'node', 'lab', 'c1', 'cfd', 'n2', 'batch', 'local', 'host-2', 'preparing', 1, 1000000, 'EUR', '["ready"]', 0, 4, 0, NULL, 1760000001000, 1760000002000),
  ('k2', 'node', 'lab', 'c1', 'cfd', 'n2', 'batch', 'local', 'host-2', 'ready', 1, 1000000, 'EUR', '["ready"]', 1, 4, 0, 1760000002000, 1760000002000, NULL),
  ('c1', 'home', 'lab', 'c1', 'cfd', '', '', '', '', 'stored', 4, 20000, 'EUR', '["stored"]', 1, 0, 0, NULL, 1760000001000, NULL);
INSERT INTO told (subject, what, percent) VALUES ('c1', 'budget', 80);
