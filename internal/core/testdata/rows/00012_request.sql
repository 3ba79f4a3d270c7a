UPDATE event SET request = 'req-1' WHERE seq = 1;
