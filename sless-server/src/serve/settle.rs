//! A request as everything behind it can rely on.

use axum::{
    extract::Request,
    http::{
        HeaderMap, HeaderValue, StatusCode, Version,
        header::{COOKIE, HOST, TRANSFER_ENCODING},
        uri::Authority,
    },
};

use super::ServeConfig;
use crate::error::ApiError;

/// Makes a request one that reads the same to everybody behind: one host, which is that of the request's
/// target where it names one (RFC 9112, section 3.2.2; RFC 9113, section 8.3.1), and one field of
/// cookies (RFC 9113, section 8.2.3).
pub(super) fn settle<B>(request: &mut Request<B>, config: &ServeConfig) -> Result<(), ApiError> {
    let fields = request.headers();
    if fields.get_all(HOST).iter().count() > 1 {
        let message = "the request has more than one Host (RFC 9112, section 3.2)";
        return Err(ApiError::bad_request("host_repeated", message));
    }
    let mut codings = fields.get_all(TRANSFER_ENCODING).iter();
    let unknown = match (codings.next(), codings.next()) {
        (None, _) => false,
        (Some(only), None) => !only.as_bytes().eq_ignore_ascii_case(b"chunked"),
        (Some(_), Some(_)) => true,
    };
    if unknown {
        // Nobody behind could tell that the body is still in that coding (RFC 9112, section 6.1).
        return Err(ApiError::new(
            StatusCode::NOT_IMPLEMENTED,
            "transfer_coding",
            "of the transfer codings only chunked is known",
        ));
    }
    let is_http2 = request.version() == Version::HTTP_2;
    // hyper itself counts those of HTTP/1.1.
    if is_http2 && fields.len() > config.headers {
        let (given, most) = (fields.len(), config.headers);
        return Err(ApiError::new(
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            "limit_headers",
            format!("the request has {given} fields: limit headers of {most} exceeded"),
        ));
    }
    if let Some(host) = request.uri().authority().and_then(host_of) {
        request.headers_mut().insert(HOST, host);
    }
    if is_http2 {
        join_cookies(request.headers_mut());
        *request.version_mut() = Version::HTTP_11;
    }
    Ok(())
}

/// The host, without the user that an old address may name.
fn host_of(authority: &Authority) -> Option<HeaderValue> {
    let host = authority.as_str().rsplit('@').next()?;
    HeaderValue::from_str(host).ok()
}

fn join_cookies(fields: &mut HeaderMap) {
    let given: Vec<_> = fields
        .get_all(COOKIE)
        .iter()
        .map(HeaderValue::as_bytes)
        .collect();
    if given.len() > 1
        && let Ok(joined) = HeaderValue::from_bytes(&given.join(&b"; "[..]))
    {
        fields.insert(COOKIE, joined);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use axum::http::Request;

    use super::*;
    use crate::settings::{Settings, Sources};

    fn settled(
        uri: &str,
        version: Version,
        fields: &[(&str, &str)],
    ) -> Result<Request<()>, ApiError> {
        let mut request = Request::builder().uri(uri).version(version);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let mut request = request.body(()).unwrap();
        let given = [("SLESS_DATA_DIR".into(), "/data".into())];
        let settings = Settings::load(&Sources::new(given, None)).unwrap();
        let config = ServeConfig::new(&settings.limits, settings.drain_timeout);
        settle(&mut request, &config).map(|()| request)
    }

    #[test]
    fn the_target_says_which_host_is_meant() {
        for (uri, version, given, host) in [
            ("/x", Version::HTTP_11, Some("a"), Some("a")),
            ("/x", Version::HTTP_11, None, None),
            ("http://b:1/x", Version::HTTP_11, Some("a"), Some("b:1")),
            ("http://b/x", Version::HTTP_2, None, Some("b")),
            ("http://u:p@b/x", Version::HTTP_2, Some("a"), Some("b")),
        ] {
            let fields: Vec<_> = given.iter().map(|given| ("host", *given)).collect();
            let request = settled(uri, version, &fields).unwrap();
            let seen = request.headers().get(HOST);
            assert_eq!(seen.map(|seen| seen.to_str().unwrap()), host, "{uri}");
            assert_eq!(request.version(), Version::HTTP_11);
        }
        let twice = settled("/x", Version::HTTP_11, &[("host", "a"), ("host", "a")]);
        assert_eq!(twice.unwrap_err().code(), "host_repeated");
    }

    #[test]
    fn a_coding_that_nobody_behind_undoes_is_refused() {
        let settled = |codings: &[&str]| {
            let fields: Vec<_> = codings
                .iter()
                .map(|coding| ("transfer-encoding", *coding))
                .collect();
            settled("/x", Version::HTTP_11, &fields)
        };
        assert!(settled(&["Chunked"]).is_ok());
        for codings in [
            &["gzip, chunked"][..],
            &["gzip", "chunked"],
            &["chunked", "chunked"],
        ] {
            let refused = settled(codings).unwrap_err();
            assert_eq!(refused.status(), StatusCode::NOT_IMPLEMENTED, "{codings:?}");
        }
    }

    #[test]
    fn cookies_of_http2_are_one_field() {
        let crumbs = [("cookie", "a=1"), ("x", "y"), ("cookie", "b=2")];
        let request = settled("http://b/x", Version::HTTP_2, &crumbs).unwrap();
        let cookies: Vec<_> = request.headers().get_all(COOKIE).iter().collect();
        assert_eq!(cookies, ["a=1; b=2"]);
        let request = settled("/x", Version::HTTP_11, &crumbs).unwrap();
        assert_eq!(request.headers().get_all(COOKIE).iter().count(), 2);
    }

    #[test]
    fn too_many_fields_are_refused_by_the_name_of_the_limit() {
        let many: Vec<_> = (0..200).map(|number| format!("x-{number}")).collect();
        let many: Vec<_> = many.iter().map(|name| (name.as_str(), "1")).collect();
        let refused = settled("http://b/x", Version::HTTP_2, &many).unwrap_err();
        assert_eq!(refused.code(), "limit_headers");
        assert_eq!(
            refused.status(),
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE
        );
    }
}
