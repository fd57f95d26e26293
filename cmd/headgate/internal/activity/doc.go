// Package activity keeps what has happened in this process lately, in bounded memory, for
// operators: the keys that occur most often, the last denials, how many requests each
// policy has had in the last hours, and when the store was unavailable.
//
// It is fed by package metrics. A decision that is allowed costs nothing more than
// before, except that one in 64 is counted for its key.
package activity
