package envoyconfig

// Glob is for the tests of patterns.
var Glob = glob
