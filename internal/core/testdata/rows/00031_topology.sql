INSERT INTO topology (fabric, graph, taken_at) VALUES ('eth0', '{}', 1760000009000);
UPDATE node SET leaf = 'leaf-1', leaf_number = 1 WHERE id = 'k2';
