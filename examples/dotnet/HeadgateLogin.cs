using System;
using System.Collections.Generic;
using System.Net;
using System.Security.Cryptography;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

// [snippet login]
/// <summary>Limits the failed logins of an account, of an address, and of both.</summary>
public sealed class HeadgateLogin
{
    private readonly HeadgateClient client;
    private readonly byte[] secret; // the same in all programs that share the limits

    public HeadgateLogin(HeadgateClient client, byte[] secret)
    {
        this.client = client;
        this.secret = secret;
    }

    /// <summary>
    /// Call this before the password is compared. Returns whether the attempt is allowed, the
    /// wait if not, and the hold. Returns null if Headgate could not decide: deny the attempt
    /// with 503. After a wrong password the hold expires, and the charge stays.
    /// </summary>
    public Task<(bool Allowed, TimeSpan RetryAfter, string Hold)?> AttemptAsync(
        string account, IPAddress address, bool known, CancellationToken cancel = default) =>
        client.HoldAsync(new { checks = Checks(account, address, known), ttl = "60s" }, cancel);

    /// <summary>Call this after the right password: the attempt costs nothing.</summary>
    public Task SucceededAsync(string hold) => client.CancelAsync(hold);

    private List<object> Checks(string account, IPAddress address, bool known)
    {
        var network = Network(address);
        var checks = new List<object> { new { policy = "login_pair", key = Hashed(network + "\n" + account) } };
        if (!known) // the browser has no signed cookie of an earlier login
        {
            checks.Add(new { policy = "login_address", key = Hashed(network) });
            checks.Add(new { policy = "login_account", key = Hashed(account) });
        }
        return checks;
    }

    private string Hashed(string text)
    {
        using (var hmac = new HMACSHA256(secret))
            return Hex(hmac.ComputeHash(Encoding.UTF8.GetBytes(text)), 32);
    }

    // The address, or the first 64 bits of an IPv6 address, in hexadecimal.
    private static string Network(IPAddress address)
    {
        if (address.IsIPv4MappedToIPv6)
            address = address.MapToIPv4();
        var bytes = address.GetAddressBytes();
        return Hex(bytes, Math.Min(bytes.Length, 8));
    }

    private static string Hex(byte[] bytes, int length) =>
        BitConverter.ToString(bytes, 0, length).Replace("-", "").ToLowerInvariant();
}
// [end login]
