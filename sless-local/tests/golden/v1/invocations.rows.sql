INSERT INTO invocations VALUES(1,'r1','q1','ns','hello','event','on-order',1,1767225601000000000,1500000,200,NULL,12);
INSERT INTO invocations VALUES(2,'r2','q2','ns','hello','event','on-order',1,1767225602000000000,1500000,500,'timeout',12);
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES('invocations',2);
