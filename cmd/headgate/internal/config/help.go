package config

import "reflect"

// helps are the help texts of settings whose field stands for several settings, by path.
var helps = map[string]string{
	"http.tls_cert":         "the certificate of this door, and those above it; it is looked at again when it changes; if it is not here, the door speaks plain text",
	"http.tls_key":          "the certificate's key",
	"http.client_ca":        "who certifies clients; if it is here, a client must have a certificate",
	"http.client_name":      "the name that a client's certificate must be for",
	"resp.event_loops":      "event loops on Linux; false: a goroutine for each connection",
	"resp.tls_cert":         "the certificate of this door, and those above it; it is looked at again when it changes; if it is not here, the door speaks plain text",
	"resp.tls_key":          "the certificate's key",
	"resp.client_ca":        "who certifies clients; if it is here, a client must have a certificate",
	"resp.client_name":      "the name that a client's certificate must be for",
	"grpc.tls_cert":         "the certificate of this door, and those above it; it is looked at again when it changes; if it is not here, the door speaks plain text",
	"grpc.tls_key":          "the certificate's key",
	"grpc.client_ca":        "who certifies clients; if it is here, a client must have a certificate",
	"grpc.client_name":      "the name that a client's certificate must be for",
	"envoy.xds.tls_cert":    "the certificate that it is shown, and those above it; files are read for each connection",
	"envoy.xds.tls_key":     "the certificate's key",
	"envoy.xds.server_ca":   "who certifies the control plane; if it is not here, whoever the system trusts",
	"envoy.xds.server_name": "the name that its certificate must be for; if it is not here, the host of server",
}

// help is the help text of the setting at a path.
func help(path string, tag reflect.StructTag) string {
	if text := helps[path]; text != "" {
		return text
	}
	return tag.Get("help")
}
