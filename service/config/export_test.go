package config

// Shape reports whether the JSON Schema says so, too.
func (e *Error) Shape() bool { return e.shape }

// Folders is folders.
var Folders = folders

// FullFile is a file that names everything there is; docs/configuration.md shows it.
const FullFile = "testdata/full.yaml"
