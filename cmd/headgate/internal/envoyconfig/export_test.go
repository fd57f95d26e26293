package envoyconfig

// Glob is glob.
var Glob = glob
