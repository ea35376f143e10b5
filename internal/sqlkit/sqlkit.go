// Package sqlkit runs statements, batches and transactions on SQLite, MySQL and MariaDB by database/sql. It is what
// package store and package sqllock have in common: each has a [DB] with its own tables and words.
//
// # What is repeated
//
// A transaction that the database undid because of another one (a deadlock, a lock timeout, a busy file) is
// run again as a whole, after a pause with jitter, until its context ends; so is a statement outside of a transaction. With
// [DB.Reconnect] the same goes for one whose connection was lost before COMMIT was sent. What is run again
// must start from nothing each time, and do nothing that a ROLLBACK does not undo. A statement outside of a transaction
// whose answer was lost may have been done, so that it runs twice.
//
// A COMMIT whose answer was lost is never repeated blindly: [DB.Tx] returns [ErrUnknownCommit]; [DB.Settle]
// asks what became of it; [DB.Sure] is for what is harmless when it is committed twice.
//
// # What an error means
//
// [ErrUnavailable]: nothing is known about what was asked, since the database did not answer, or not in time. [ErrUnknownCommit]
// is one of these. Every other error is an answer, of the database or of the function that was run, and nothing of the transaction
// was committed.
//
// # Statements
//
// A statement is one text for all databases, but for words in braces: the tables of the DB and what a dialect says
// differently, see [Dialect]. Parameters are strings, byte slices, integers, booleans, nil, and pointers and Null types of these.
// A statement about many rows has them as its first parameter, see [Many]; upserts, and inserts that leave out what is there, are
// [Tx.Upsert] and [Tx.InsertNew]. Neither text nor parameters say which database is meant: a further one is one more Dialect.
package sqlkit
