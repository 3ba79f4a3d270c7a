-- What the site signs with comes sealed, from the program alone.
INSERT INTO trust (subject, boot, agents, tokens, hosts) VALUES ('k1', 1, 1, 1, 1);
UPDATE cluster SET munge_at = 1760000009000 WHERE id = 'c1';
