INSERT INTO task (id, cluster_id, origin, account, work, said, outcome, created_at, phase, phase_at, wake_at) VALUES
  ('t3', 'c1', 'pause', 'root', '{"command":["/etc/muster/checkpoint"],"limit":300000000000}',
   '{"stage":"ended","outcome":"ok","exit":0}', 'ok', 1760000020000, 'ended', 1760000021000, 2305843009213693951);
