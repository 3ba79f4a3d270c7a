INSERT INTO task (id, cluster_id, account, work, cancel, boot, said, outcome, kept, created_at, phase, phase_at, wake_at) VALUES
  ('t1', 'c1', 'ada', '{"command":["hostname"],"ranks":2,"limit":600000000000}', 0, 1,
   '{"id":"t1","stage":"ended","outcome":"ok","exit":0,"nodes":["n2"],"bytes":3,"samples":[{"name":"rate","value":2.5,"unit":"GB/s"}]}',
   'ok', 3, 1760000010000, 'ended', 1760000011000, 2305843009213693951),
  ('t2', 'c1', 'ada', '{"script":"sleep 1","limit":600000000000}', 0, 0, '', '', 0, 1760000012000, 'pending', 1760000012000, 1760000012000);
INSERT INTO task_output (task_id, start, bytes) VALUES ('t1', 0, 'bjIK');
