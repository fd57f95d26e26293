package redisstore

// NewEditedStore returns a store whose script is edited.
var NewEditedStore = newEditedStore
