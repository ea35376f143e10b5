// Package sqlite opens SQLite files for package store. A program that calls store.Open with store.SQLite imports it like
// a driver of database/sql; one that works with MySQL alone does not, and links no SQLite:
//
//	import _ "github.com/lockstep-scheduler/lockstep/store/sqlite"
//
// A handle that the program opened itself, for store.New, needs the program's own import of modernc.org/sqlite alone.
package sqlite
