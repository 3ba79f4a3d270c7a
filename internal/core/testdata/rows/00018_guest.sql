INSERT INTO machine (id, name, substrate, facts, desired, phase, phase_at, wake_at, hosts) VALUES
  ('h1', 'big-1', 'local', '{"arch":"amd64","cpus":64,"memory_mib":262144}', 'service', 'available', 1760000008000, 1760000008000, 1);
INSERT INTO machine (id, name, substrate, facts, desired, phase, phase_at, wake_at, host_id, holding) VALUES
  ('g1', 'big-1-g1', 'vm', '{"arch":"amd64","cpus":2,"memory_mib":4096}', 'service', 'in-use', 1760000008000, 1760000008000, 'h1', '{}');
INSERT INTO held (host_id, kind, name, guest_id) VALUES ('h1', 'core', '0', 'g1'), ('h1', 'core', '1/0', 'g1'), ('h1', 'device', '0000:01:00.1', 'g1');
INSERT INTO seat (cluster_id, name, slot) VALUES ('c1', 'n3', 3);
INSERT INTO node (id, cluster_id, name, role, queue, class, machine_id, machine, desired, boot, created_at, phase, phase_at, wake_at, vm, host_id) VALUES
  ('k3', 'c1', 'n3', 'compute', 'batch', 'local', 'g1', 'big-1-g1', 'present', 1, 1760000008000, 'booting', 1760000008000, 1760000008000, '{"cpus":2,"memory":"4GiB"}', 'h1');
