UPDATE machine SET to_host_id = 'h2', to_holding = '{}' WHERE id = 'g1';
INSERT INTO held (host_id, kind, name, guest_id) VALUES ('h2', 'core', '4', 'g1');
