// Package statefile keeps the state of a program in a folder: one file that begins with a
// complete image of the state and continues with groups of changes. A group is applied as
// a whole or not at all. The content of the frames is opaque to the package.
//
// # Format
//
// A file begins with the line of [preamble], which has the version. Then come frames:
//
//	bytes 0–3    "HGf1"
//	bytes 4–7    length of the payload
//	bytes 8–15   number of the group
//	bytes 16–19  kind
//	bytes 20–23  CRC-32C of bytes 4–19 and the payload
//	bytes 24–    payload
//
// Every number is stored with the least significant byte first. The first frame has the
// kind header. All other frames belong to groups, whose numbers increase by one, and the
// last frame of a group has the kind end. A group is synced to the disk before the next
// group is written.
//
// # What a damaged file means
//
// A group without a valid end was not synced: the program, or the machine, stopped while
// it was written. Such a group is cut off. If a valid frame of a later group follows the
// damage, then the damaged group had been synced, and the file is corrupt. A file is also
// corrupt if its image is not complete, because a file gets its name only afterwards.
package statefile
