UPDATE observed SET idle_at = 1760000002500, last_busy = '2025-10-09T08:53:20' WHERE node_id = 'k2';
UPDATE observed SET waiting = '{"waiting":[{"id":7,"tasks":1,"user":"ada","queues":["batch"],"nodes":2,"cpus":2,"node_cpus":1,"since":"2025-10-09T08:53:20Z","reason":"Resources","grows":true}],"waits":1}' WHERE node_id = 'k1';
