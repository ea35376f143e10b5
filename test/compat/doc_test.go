// Package compat runs this program beside the one before its newest migration, on one store: where tables
// serve both, replicas can be replaced one by one, and back again; where the migration ends the compatibility, they are replaced all at once.
package compat
