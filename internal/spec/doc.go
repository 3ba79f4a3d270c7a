// Package spec reads, checks and compares cluster files.
//
// In comes the text of one cluster file, YAML or JSON, from a disk, an API body or Git. Out comes a Document: a Cluster of
// plain values, and the place in the text where each was written, so that a later refusal, for lack of capacity or quota, can
// still name "cluster.yaml:7:12". A file with errors yields no Document but Diagnostics: all errors at once.
//
// One table, in fields.go, says for each field its type, default, effect of an update and whether it is available yet. Parse,
// Render, Diff, Schema and the documentation all read it, so that a new field is one row there and one line in types.go.
//
//	Parse    text → Document      strict: nothing is ignored, nothing is guessed
//	Resolve  Cluster → Cluster    fills the defaults; what `muster expand` prints
//	Render   Cluster → text       canonical; Parse reads it back to the same Cluster
//	Diff     two Clusters → what changes, and what each change does to a running cluster
//	Schema   → JSON Schema        the same rules for editors, as far as a schema can say them
//
// The package does no I/O, knows no site, and keeps no state: whether a class or an image exists is asked elsewhere.
package spec
