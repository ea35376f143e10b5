// Package ledger holds what the scheduler and the store say to each other: sessions, the state of
// a job's row, decisions, claims, results; and what the API answers of it (the views, Overview,
// AuditEntry) and the metrics show (Vitals). The scheduler decides, the store writes; neither
// imports the other.
//
// Every write of an owner carries its token, and the store reads the rows affected. All times in
// rows are UTC and come from the database.
package ledger
