// Package cluster runs three replicas of the real binary on each pair of store and lock service, kills one, drains
// another, and checks the tables afterwards.
package cluster
