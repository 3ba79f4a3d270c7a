UPDATE external_cluster SET reason = 'external cluster lost does not answer: connection refused', generation = 2, reached = 2 WHERE id = 'lost';
