// Package compat runs this program beside the one before its newest migration, on one store: tables
// serve both, so replicas can be replaced one by one, and back again.
package compat
