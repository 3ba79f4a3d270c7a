INSERT INTO network (name, description) VALUES ('rack', '{"name":"rack","interface":"boot0","address":"10.78.0.1/16","mode":"own"}');
INSERT INTO machine (id, name, substrate, facts, desired, phase, phase_at, wake_at, network, macs, power, boot, boot_at, tries, dirty, release) VALUES
  ('m5', 'rack-1', 'metal', '{"arch":"amd64","cpus":64,"memory_mib":262144}', 'service', 'inspecting', 1760000003000, 1760000003000,
   'rack', '["52:54:00:00:00:01"]', '{"control":"ipmi://10.0.0.5","credentials":"file:/etc/muster/bmc"}', 3, 1760000003000, 1, 1, '{}');
INSERT INTO nic (mac, machine_id, position) VALUES ('52:54:00:00:00:01', 'm5', 0);
INSERT INTO lease (network, address, mac, expires) VALUES ('rack', 172884322, '52:54:00:00:00:01', 0), ('rack', 172884323, '52:54:00:00:00:02', 1760000009000);
INSERT INTO boot (machine_id, subject, number, image, file, powered_at, scripts, step, heard_at, findings) VALUES
  ('m5', 'm5', 3, 'sha256:0000000000000000000000000000000000000000000000000000000000000000', '{"node":"m5","name":"rack-1","boot":3,"token":"","authority":"","endpoints":["https://10.78.0.1:7421"],"duty":"inspect"}', 1760000003000, 1, 'kernel', 1760000003500, '');
INSERT INTO stranger (mac, network, first_seen, last_seen) VALUES ('52:54:00:00:00:02', 'rack', 1760000003000, 1760000003100);
UPDATE cluster SET segment = 7 WHERE id = 'c1';
