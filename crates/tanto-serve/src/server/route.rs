//! Paths of requests.

use hyper::Method;
use tanto_protocol::{ClientRequest, Digest, VERSION, is_client_name};

/// What a request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Route {
    Join,
    /// A request that the coordinator answers, by name.
    Relay(&'static str),
    Missing,
    /// Blobs are asked for.
    GetPack,
    PutPack,
    Blob(Digest, BlobMethod),
    /// A package tree is pushed.
    Tree,
    Metrics,
    /// The authorities that clients have to trust.
    Authority,
}

/// What is done with a blob.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BlobMethod {
    Get,
    Head,
    /// All of it.
    Put,
    /// The rest of it.
    Patch,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RouteError {
    NotFound,
    /// Only this method.
    Method(&'static str),
}

impl Route {
    /// The build and the route of a request.
    pub(super) fn of<'a>(method: &Method, path: &'a str) -> Result<(&'a str, Route), RouteError> {
        let mut parts = path.strip_prefix('/').ok_or(RouteError::NotFound)?.splitn(3, '/');
        let (Some(version), Some(build), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(RouteError::NotFound);
        };
        if version.strip_prefix('v') != Some(VERSION.to_string().as_str()) || !is_client_name(build) {
            return Err(RouteError::NotFound);
        }
        if let Some(digest) = rest.strip_prefix("cas/") {
            let digest = digest.parse().map_err(|_| RouteError::NotFound)?;
            return BlobMethod::of(method).map(|method| (build, Route::Blob(digest, method)));
        }
        let (only, route) = match rest {
            "missing" => ("POST", Route::Missing),
            "pack" if *method == Method::PUT => ("PUT", Route::PutPack),
            "pack" if *method == Method::POST => ("POST", Route::GetPack),
            "pack" => return Err(RouteError::Method("POST, PUT")),
            "join" => ("POST", Route::Join),
            "tree" => ("POST", Route::Tree),
            "metrics" => ("GET", Route::Metrics),
            "authority" => ("GET", Route::Authority),
            name => {
                let mut names = ClientRequest::NAMES.into_iter();
                ("POST", Route::Relay(names.find(|known| *known == name).ok_or(RouteError::NotFound)?))
            }
        };
        if method.as_str() == only { Ok((build, route)) } else { Err(RouteError::Method(only)) }
    }

    /// For metrics.
    pub(super) fn name(self) -> &'static str {
        match self {
            Route::Join => "join",
            Route::Relay(name) => name,
            Route::Missing => "missing",
            Route::GetPack => "get-pack",
            Route::PutPack => "put-pack",
            Route::Blob(_, BlobMethod::Get) => "get",
            Route::Blob(_, BlobMethod::Head) => "head",
            Route::Blob(_, BlobMethod::Put) => "put",
            Route::Blob(_, BlobMethod::Patch) => "patch",
            Route::Tree => "tree",
            Route::Metrics => "metrics",
            Route::Authority => "authority",
        }
    }
}

impl BlobMethod {
    fn of(method: &Method) -> Result<BlobMethod, RouteError> {
        match *method {
            Method::GET => Ok(BlobMethod::Get),
            Method::HEAD => Ok(BlobMethod::Head),
            Method::PUT => Ok(BlobMethod::Put),
            Method::PATCH => Ok(BlobMethod::Patch),
            _ => Err(RouteError::Method("GET, HEAD, PATCH, PUT")),
        }
    }
}

/// Returns the number of this name in a query such as `at=5&size=9`. Fails if it is no number, or there are two.
pub(super) fn query_number(query: &str, name: &str) -> Result<Option<u64>, ()> {
    let mut values = query.split('&').filter_map(|part| part.split_once('=')).filter(|(key, _)| *key == name);
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some((_, value)), None) if value.bytes().all(|digit| digit.is_ascii_digit()) => {
            value.parse().map(Some).map_err(|_| ())
        }
        _ => Err(()),
    }
}

/// Returns the first and the last byte of a `Range` header. `None` if it is another kind of range, which is ignored.
/// Fails if there are no such bytes.
pub(super) fn byte_range(header: &str, size: u64) -> Result<Option<(u64, u64)>, ()> {
    let Some((first, last)) = header.strip_prefix("bytes=").and_then(|range| range.split_once('-')) else {
        return Ok(None);
    };
    let number = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit()).then(|| text.parse::<u64>().ok());
    let (Some(Some(first)), last) = (number(first), if last.is_empty() { Some(Some(u64::MAX)) } else { number(last) })
    else {
        return Ok(None);
    };
    match last.flatten() {
        Some(last) if first <= last && first < size => Ok(Some((first, last.min(size - 1)))),
        Some(last) if first <= last => Err(()),
        _ => Ok(None),
    }
}

/// Parses any method, path, query and range, for fuzzing.
pub fn fuzz_route(method: &[u8], path: &str, query: &str, range: &str, size: u64) {
    let _ = query_number(query, "at");
    if let Ok(Some((first, last))) = byte_range(range, size) {
        assert!(first <= last && last < size);
    }
    if let Ok(method) = Method::from_bytes(method)
        && let Ok((build, _)) = Route::of(&method, path)
    {
        assert!(path.starts_with(&format!("/v{VERSION}/{build}/")));
    }
}
