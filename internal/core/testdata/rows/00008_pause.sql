INSERT INTO snapshot (id, project, name, cluster_id, cluster, spec, desired, bytes, created_at, created_by, phase, phase_at, wake_at) VALUES
  ('s1', 'lab', 'before-it-broke', 'c1', 'cfd', '{"name":"cfd","project":"lab","head":{"class":"local"},"queues":[{"name":"batch","class":"local","min":1,"max":1}]}',
   'present', 4096, 1760000005000, 'admin', 'saved', 1760000005500, 1760000005500);
UPDATE cluster SET pause_wait = 60000, held = 4096 WHERE id = 'c1';
