# For packages that need this one.

DEPENDS+=	options>=1:../../devel/options
pkgbase:=	options
pkgdir:=	../../devel/options
.include "../../mk/pkg-build-options.mk"
