INSERT INTO acknowledgement (alarm, person, note, at, seen_at, ends_at)
VALUES ('machines-quarantined', 'ada', 'the vendor comes', 1000, 900, 9000);
INSERT INTO census (at, counts) VALUES (1760000040000, '{"phases": {"machine": {"available": 2}}, "jobs": {"running": 1}}');
UPDATE cluster_jobs SET running = 1, pending = 2 WHERE cluster_id = 'c1';
INSERT INTO external_cluster (name, login, host_keys, probe, created_at, looked_at, seen_at, lost_at, reason) VALUES
  ('changed', 'changed:22', 'ssh-ed25519 AAAA', 'muster', 1000, NULL, 3000, NULL, ''),
  ('lost', 'lost:22', 'ssh-ed25519 AAAA', 'muster', 1000, 2500, 1500, 2000, 'connection refused'),
  ('new', 'new:22', 'ssh-ed25519 AAAA', 'muster', 1000, NULL, NULL, NULL, '');
