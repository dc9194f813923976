INSERT INTO invocations VALUES(1,'r1','q1','ns','hello','event','on-order',1,1767225601000000000,1500000,200,NULL,12,NULL,7,NULL);
INSERT INTO invocations VALUES(2,'r2','q2','ns','hello','http',NULL,1,1767225602000000000,1500000,500,'timeout',12,'192.0.2.7',9,'Traceback
  höllo
');
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES('invocations',2);
