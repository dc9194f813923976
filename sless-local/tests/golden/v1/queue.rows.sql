INSERT INTO dead_letters VALUES(1,'3b0fc8a2-4a6f-4c5e-9f0a-000000000002','ns','on-order','the function answered 500',1796026486368336295,1,5,'order-1',X'0001FF','application/json','{"a":"b"}',1796026486360189840,28);
INSERT INTO messages VALUES(2,1,0,0,'order-2',X'0001FF','application/json','{"a":"b"}',1796026486372089230,28);
INSERT INTO queues VALUES(1,'ns','orders',1,1,56);
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES('messages',2);
INSERT INTO sqlite_sequence VALUES('dead_letters',1);
