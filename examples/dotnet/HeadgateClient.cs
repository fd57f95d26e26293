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
    public Task<(bool Allowed, TimeSpan RetryAfter)?> CheckAsync(
        string policy, string key, CancellationToken cancel = default) =>
        CheckAsync(new { policy, key }, cancel);

    /// <summary>The same for the body of a request, which can have several checks.</summary>
    public async Task<(bool Allowed, TimeSpan RetryAfter)?> CheckAsync(object request, CancellationToken cancel)
    {
        try
        {
            using (var response = await http.PostAsJsonAsync("/v1/check", request, cancel))
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

    /// <summary>Refunds what CheckAsync charged.</summary>
    public async Task RefundAsync(object request)
    {
        using (await http.PostAsJsonAsync("/v1/refund", request, CancellationToken.None))
        {
        }
    }
}
// [end client]
