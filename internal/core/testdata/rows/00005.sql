INSERT INTO acknowledgement (alarm, person, note, at, seen_at, ends_at)
VALUES ('machines-quarantined', 'ada', 'the vendor comes', 1000, 900, 9000);
INSERT INTO census (at, counts) VALUES (1760000040000, '{"phases": {"machine": {"available": 2}}, "jobs": {"running": 1}}');
UPDATE cluster_jobs SET running = 1, pending = 2 WHERE cluster_id = 'c1';
