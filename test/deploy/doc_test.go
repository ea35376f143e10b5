// Package deploy holds deploy/ and docs/operations.md to what they say, as far as that can be seen
// on a machine without a container engine. What needs other people's parsers is in test/manifests.
package deploy
