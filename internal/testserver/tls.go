package testserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// authority signed the certificate of one server, or of those that work together; both live as long as the test.
type authority struct {
	caFile, certFile, keyFile string // in PEM
	client                    *tls.Config
}

// newAuthority makes an authority and a server's certificate.
func newAuthority(t testing.TB) *authority {
	t.Helper()
	dir := t.TempDir()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "headgate's tests"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	server := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "localhost"}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, // nodes are each other's clients
	}
	caKey, serverKey := newKey(t), newKey(t)
	a := &authority{
		caFile:   sign(t, filepath.Join(dir, "ca.pem"), ca, ca, caKey, caKey),
		certFile: sign(t, filepath.Join(dir, "server.pem"), server, ca, serverKey, caKey),
		keyFile:  filepath.Join(dir, "server.key"),
	}
	key, err := x509.MarshalECPrivateKey(serverKey)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, a.keyFile, "EC PRIVATE KEY", key)
	text, err := os.ReadFile(a.caFile)
	if err != nil {
		t.Fatal(err)
	}
	a.client = &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	a.client.RootCAs.AppendCertsFromPEM(text)
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// sign writes the certificate of a key, signed by parent's, and returns the file's name.
func sign(t testing.TB, file string, cert, parent *x509.Certificate, key, by *ecdsa.PrivateKey) string {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, &key.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, file, "CERTIFICATE", der)
	return file
}

func writePEM(t testing.TB, file, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}
