using System;
using System.Net;
using System.Net.Http;
using System.Net.Http.Json;
using System.Threading;
using System.Threading.Tasks;

// [snippet client]
/// <summary>Checks limits over the HTTP API.</summary>
public sealed class HeadgateClient
{
    private readonly HttpClient http;

    public HeadgateClient(HttpClient http) => this.http = http;

    /// <summary>
    /// Returns whether the request is allowed, and if not, the wait. Returns null if
    /// Headgate could not decide.
    /// </summary>
    public async Task<(bool Allowed, TimeSpan RetryAfter)?> CheckAsync(
        string policy, string key, CancellationToken cancel = default)
    {
        try
        {
            using (var response = await http.PostAsJsonAsync("/v1/check", new { policy, key }, cancel))
            {
                if (response.StatusCode == HttpStatusCode.OK)
                    return (true, TimeSpan.Zero);
                if ((int)response.StatusCode == 429) // an answer, not a failure
                    return (false, response.Headers.RetryAfter?.Delta ?? TimeSpan.Zero);
                Console.Error.WriteLine($"headgate: status {(int)response.StatusCode}");
            }
        }
        catch (HttpRequestException e)
        {
            Console.Error.WriteLine($"headgate: {e.Message}");
        }
        catch (OperationCanceledException) when (!cancel.IsCancellationRequested)
        {
            Console.Error.WriteLine("headgate: timeout");
        }
        return null;
    }
}
// [end client]
