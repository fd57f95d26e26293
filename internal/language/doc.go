// Package language contains the test of the wording of comments, messages and documents.
// The test does not run under the race detector, which makes it very slow.
package language
