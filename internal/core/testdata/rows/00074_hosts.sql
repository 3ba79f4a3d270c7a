INSERT INTO benchmark_host (host, benchmark_id) VALUES ('', 'b1');
