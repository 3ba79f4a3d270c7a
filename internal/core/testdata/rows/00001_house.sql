INSERT INTO project (name, recorded, created_at) VALUES ('lab', 0, 1760000000000);

INSERT INTO machine (id, name, substrate, facts, desired, phase, reason, phase_at, wake_at) VALUES
  ('m1', 'host-1', 'local', '{"arch":"amd64","cpus":4,"memory_mib":8192}', 'service', 'in-use', 'node n1 of cluster cfd', 1760000001000, 1760000001000),
  ('m2', 'host-2', 'local', '{"arch":"amd64","cpus":4,"memory_mib":8192}', 'service', 'in-use', 'node n2 of cluster cfd', 1760000001000, 1760000001000),
  ('m3', 'host-3', 'local', '{}', 'service', 'enrolled', '', 1760000001000, 1760000001000),
  ('m4', 'host-4', 'local', '{}', 'removed', 'removed', '', 1760000001000, 2305843009213693951);
UPDATE machine SET suspect = 'node n9 failed' WHERE id = 'm3';

INSERT INTO cluster (id, project, name, spec, image, desired, generation, reached, munge_key, receipt, created_at, created_by, phase, reason, phase_at, wake_at) VALUES
  ('c0', 'lab', 'cfd', '{"name":"cfd","project":"lab","head":{"class":"local"},"queues":[{"name":"batch","class":"local","min":1,"max":1}]}',
   'sha256:0000000000000000000000000000000000000000000000000000000000000000', 'deleted', 1, 1, '""', '{}', 1760000000500, 'admin', 'deleted', '', 1760000000900, 2305843009213693951),
  ('c1', 'lab', 'cfd', '{"name":"cfd","project":"lab","head":{"class":"local"},"queues":[{"name":"batch","class":"local","min":1,"max":1}]}',
   'sha256:0000000000000000000000000000000000000000000000000000000000000000', 'present', 2, 1, '"Y2xlYXI="', '', 1760000001000, 'admin', 'ready', 'head and 1 node ready', 1760000002000, 1760000002000);

INSERT INTO seat (cluster_id, name, slot) VALUES ('c0', 'head', 1), ('c0', 'n2', 2), ('c1', 'head', 1), ('c1', 'n2', 2);

INSERT INTO node (id, cluster_id, name, role, queue, class, machine_id, machine, desired, boot, joined_boot, joined_key, created_at, phase, reason, phase_at, wake_at) VALUES
  ('k0', 'c0', 'head', 'head', '', 'local', NULL, 'host-1', 'absent', 1, 1, 'SHA256:aaaa', 1760000000500, 'gone', '', 1760000000900, 2305843009213693951),
  ('k1', 'c1', 'head', 'head', '', 'local', 'm1', 'host-1', 'present', 1, 1, 'SHA256:bbbb', 1760000001000, 'ready', '', 1760000002000, 1760000002000),
  ('k2', 'c1', 'n2', 'compute', 'batch', 'local', 'm2', 'host-2', 'present', 2, 2, 'SHA256:cccc', 1760000001000, 'ready', '', 1760000002000, 1760000002000);

INSERT INTO observed (node_id, boot, seen_at, revision, checks, facts, slurm) VALUES
  ('k1', 1, 1760000002000, 1, '[{"name":"munge","ok":true}]', '{"arch":"amd64","cpus":4}', ''),
  ('k2', 2, 1760000002000, 1, '[]', '{}', '{"name":"n2","state":"idle","responding":true,"jobs":0,"last_busy":"Unknown"}');

INSERT INTO event (seq, at, type, project, cluster_id, cluster, node, machine, phase, text) VALUES
  (1, 1760000001000, 'cluster.requested', 'lab', 'c1', 'cfd', '', '', '', 'admin asked for 1 node'),
  (2, 1760000002000, 'cluster.phase', 'lab', 'c1', 'cfd', '', '', 'ready', 'head and 1 node ready');
UPDATE event_head SET seq = 2;

INSERT INTO idempotency (identity, key, request, status, answer, created_at) VALUES
  ('admin', 'key-1', 'abcd', 202, '{"id":"c1","name":"cfd","project":"lab"}', 1760000001000);

INSERT INTO secret (name, value) VALUES ('token-key', 'in clear');
