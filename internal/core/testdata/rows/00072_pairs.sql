UPDATE benchmark SET suite = 'quick', kept = 2000, peer = 'b2' WHERE id = 'b1';
UPDATE benchmark_round SET disturbed = 'n1 was throttled 2 times' WHERE benchmark_id = 'b1';
