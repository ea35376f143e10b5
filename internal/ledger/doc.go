// Package ledger holds what the scheduler and the store say to each other: Store is the interface,
// and its sessions, rows of jobs, decisions, claims and results are the values. The scheduler decides, the store writes;
// neither imports the other.
//
// Every write of an owner carries its token, and the store reads the rows affected. All times in
// rows are UTC and come from the database.
package ledger
