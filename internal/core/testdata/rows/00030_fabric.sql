INSERT INTO fabric (id, name, driver, config, managers, desired, applied, applied_at, created_at, created_by, phase, phase_at, wake_at) VALUES
  ('f1', 'ib0', 'opensm', '{"hosts":"here"}', '["0x0002c90300000001"]', 'present', 1, 1760000009000, 1760000009000, 'admin', 'ready', 1760000009000, 1760000009000);
INSERT INTO fabric_snapshot (fabric_id, taken_at, text) VALUES ('f1', 1760000009000, '');
INSERT INTO fabric_port (guid, fabric_id, adapter, number, name, machine_id) VALUES ('0x0002c90300000011', 'f1', '0x0002c90300000010', 1, 'host-2', 'm2');
INSERT INTO partition (id, fabric_id, pkey, cluster_id, name) VALUES ('p1', 'f1', 1, 'c1', ''), ('p2', 'f1', 28672, NULL, 'storage');
INSERT INTO partition_member (partition_id, fabric_id, guid, kind, node_id, full_member, since) VALUES
  ('p1', 'f1', '0x0002c90300000011', 'port', 'k2', 1, 1), ('p2', 'f1', '0x0002c90300000001', 'site', NULL, 1, 1);
INSERT INTO port_seen (guid, fabric_id, entries, capacity, answered, surplus, missing, seen_at, odd_at) VALUES
  ('0x0002c90300000011', 'f1', '["0x8001"]', 128, 1, '[]', '[]', 1760000009000, 0);
UPDATE machine SET facts = '{"arch":"amd64","cpus":4,"memory_mib":8192,"devices":[{"kind":"hca","pci":"0000:04:00.0","guid":"0002:C903:0000:0010"},{"kind":"gpu","pci":"0000:05:00.0"}]}' WHERE id = 'm2';
INSERT INTO fabric_port (guid, fabric_id, adapter, number, name) VALUES ('0x0002c90300000012', 'f1', '0x0002c90300000010', 2, 'host-2');
